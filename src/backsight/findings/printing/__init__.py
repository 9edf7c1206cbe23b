"""A finding for the eye: lines of the source with the culprits marked, in a terminal or a page; and for programs."""
