"""Recovery at start: examines a store, and makes log and views consistent."""
