"""Messages of a log as files for other programs: Parquet, Arrow, or JSON lines."""
