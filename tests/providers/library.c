/* The library that a broken provider needs and nobody has. */
int not_there(void);
int not_there(void)
{
    return 1;
}
