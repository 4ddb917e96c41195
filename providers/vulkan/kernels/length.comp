#version 450
// The number of positions a cache holds.
layout(local_size_x = 1) in;
layout(push_constant) uniform Push
{
    uint set, add;
} push;
layout(std430, binding = 0) buffer State { uint length; };

void main()
{
    if (gl_GlobalInvocationID.x == 0u) length = push.set + push.add * length;
}
