"""Parts of the interior point for l1 and max at size: its matrix, its pairs, its path."""
