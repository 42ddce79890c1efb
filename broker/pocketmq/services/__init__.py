"""What messages mean: sending, pulling, querying. Siblings never know each other, nor the wire."""
