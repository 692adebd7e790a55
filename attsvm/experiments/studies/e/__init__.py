"""Studies of neighbouring works on the same objects, each with a reference of its own."""
