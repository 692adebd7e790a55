"""Studies of the paper on prompts [tarzanagh2023maxmargin]."""
