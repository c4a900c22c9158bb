"""Where episodes begin: how a start state comes about, and whether one can train from it.

Enter at `boot.start_state`. `named` says what a person's word for a start means, `route` is a way
as data, `driver` plays it by rules (with `situation` and `ground`), `shelf` is a person's folder of
them, `foreign` judges states from elsewhere in a child, `preflight` and `checks` ask whether one
can train from here.
"""
