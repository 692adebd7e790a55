"""HTML pages that need nothing else: their frame, their colours, pictures inside them."""
