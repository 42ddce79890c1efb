"""What those who run a broker do with it: functions of an open store and of values of the model."""
