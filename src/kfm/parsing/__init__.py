"""Reading what people write: YAML, JSON with places, patterns, dates, encodings. Texts in, plain values out."""
