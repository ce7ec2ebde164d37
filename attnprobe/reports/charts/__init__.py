"""Tables as pictures: what a kind of picture shows is said in ``figures``, and drawn by seven templates."""
