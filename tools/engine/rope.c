#include "rope.h"

#include <math.h>
#include <stdlib.h>
#include <tenon/engine.h>

float *rope_table(const rope_rule *rule, uint64_t positions, uint64_t *bytes)
{
    uint64_t pairs = rule->rotary / 2, size, i, position;
    double *speeds; /* radians from one position to the next */
    float *table;
    *bytes = 0;
    if (!tenon_mul_u64(positions, pairs, &size) || !tenon_mul_u64(size, 2 * sizeof *table, &size) ||
        size > SIZE_MAX)
        return NULL;
    speeds = malloc((size_t)pairs * sizeof *speeds);
    table = malloc((size_t)size);
    if (speeds == NULL || table == NULL) {
        free(speeds);
        free(table);
        return NULL;
    }
    for (i = 0; i < pairs; i++) {
        speeds[i] = pow(rule->base, -2.0 * (double)i / (double)rule->rotary) / rule->factor;
        if (rule->factors != NULL) speeds[i] /= (double)rule->factors[i];
    }
    for (position = 0; position < positions; position++) {
        float *row = table + position * pairs * 2;
        for (i = 0; i < pairs; i++) {
            double angle = (double)position * speeds[i];
            row[2 * i] = (float)cos(angle);
            row[2 * i + 1] = (float)sin(angle);
        }
    }
    free(speeds);
    *bytes = size;
    return table;
}
