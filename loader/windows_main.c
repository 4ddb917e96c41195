/* The entry of a program on Windows (link with -municode): hands main its arguments as UTF-8, as
 * platform.h wants all strings, where the system's own main would lose what its code page lacks. */
#include "windows_shared.h"

#include <stdlib.h>

int main(int count, char **arguments);
int wmain(int count, wchar_t **wide);

int wmain(int count, wchar_t **wide)
{
    char **arguments = calloc((size_t)count + 1, sizeof *arguments);
    int i, status = 70;
    if (arguments == NULL) return status;
    for (i = 0; i < count; i++)
        if ((arguments[i] = windows_narrow(wide[i])) == NULL) goto out;
    status = main(count, arguments);
out:
    for (i = 0; i < count; i++) free(arguments[i]);
    free(arguments);
    return status;
}
