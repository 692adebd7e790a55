"""What is guaranteed of a head's choices, and the attacks that check it."""
