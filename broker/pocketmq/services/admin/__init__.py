"""Administration of an open store: functions of the store and of model values."""
