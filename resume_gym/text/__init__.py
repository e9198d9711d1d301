"""Analysis of resume text: lines, writing style, and known facts about the candidate."""
