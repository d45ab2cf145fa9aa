CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO customers VALUES (1, 'Ford'), (2, 'Pratt');
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, cents INTEGER);
INSERT INTO orders VALUES (11, 2, 450), (12, 1, 90);
