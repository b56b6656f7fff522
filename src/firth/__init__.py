"""Firth: language-representation models, from word2vec to BERT and beyond."""
