"""What options are sorted under in ``--help``, and names that several commands give to one."""

MODEL, TEXT, TASK, OUTPUT = "Model", "Text", "Task", "Output"
#: One option with two names, in every command that has it.
LABEL_COLUMN = ("--label-column", "--target-column")
