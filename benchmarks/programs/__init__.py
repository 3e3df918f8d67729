"""Programs that cases run as processes of their own: the other side of the comparisons, and single steps of ours."""
