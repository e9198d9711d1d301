"""Analysis of resume text: lines, writing style, and true statements about the candidate."""
