"""What happened in a training, as events: seen by a watch, or read from the frames and the source text of a failure.

An explanation asks for events (`changes`, `cuts`) and puts them into words; it never asks where they come from.

Offered to other rooms: `anew`, `behind`, `carrier`, `carriers`, `case`, `changes`, `cut_fixes`, `cuts`, `enabling`,
`evaluated`, `failure`, `files`, `fixes`, `handed`, `histories`, `holders`, `hooks`, `in_pytorch`, `injected`,
`joints`, `made_in_place`, `memory`, `modes`, `ratios`, `recomputing`, `renewing`, `routes`, `scenes`, `sections`,
`stepping`, `stores`, `subject`, `trained`, `unmatched`, `waiting`.
"""
