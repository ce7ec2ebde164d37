"""How much goes to tokens that frame a text, and to punctuation."""
