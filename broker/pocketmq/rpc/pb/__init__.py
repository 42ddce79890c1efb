"""Output of `scripts/generate` from proto/; imported inside rpc only, never edited."""
