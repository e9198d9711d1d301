"""The bundled nano policy and the recipe that makes it."""
