"""Studies of the paper on weights [tarzanagh2023svm]."""
