"""Files that say who is who: CorefUD, GAP and WinoBias, read as questions for the antecedent of a mention."""
