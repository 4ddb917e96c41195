/* Makes a provider need the library that holds its other half. */
extern const char qmatmul_v1[];
extern const void *needs_half(void);
const void *needs_half(void)
{
    return qmatmul_v1;
}
