"""What `scripts/generate` makes of proto/; imported inside rpc only, never edited."""
