"""The methods, a file for each kind of task: functions of arrays, which import nothing of the benchmark."""
