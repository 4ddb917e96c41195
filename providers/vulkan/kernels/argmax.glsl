// The first maximum: candidates are an index and a key that orders as the values do.
layout(local_size_x = 128) in;
layout(push_constant) uniform Push
{
    uint x, x_stride, width, work, stretches, y;
} push;

#define NOWHERE 0xffffffffu
#define STRETCH 4096u

shared int best_key[128];
shared uint best_index[128];

// Values as integers of the same order; both zeros are 0.
int key_of(uint bits)
{
    return (bits & 0x80000000u) != 0u ? -int(bits & 0x7fffffffu) : int(bits);
}

// The better of two candidates, NOWHERE never.
void take(inout int key, inout uint index, int other_key, uint other)
{
    if (other == NOWHERE) return;
    if (index == NOWHERE || other_key > key || (other_key == key && other < index)) {
        key = other_key;
        index = other;
    }
}

// The best of the workgroup; all invocations come here.
void reduce(inout int key, inout uint index)
{
    uint lane = gl_LocalInvocationID.x;
    best_key[lane] = key;
    best_index[lane] = index;
    for (uint step = 64u; step > 0u; step /= 2u) {
        barrier();
        if (lane < step) {
            take(key, index, best_key[lane + step], best_index[lane + step]);
            best_key[lane] = key;
            best_index[lane] = index;
        }
    }
}
