/* Makes a provider need the library of library.c. */
extern int not_there(void);
extern int needs_library(void);
int needs_library(void)
{
    return not_there();
}
