#version 450
// The number of positions a cache holds; no append is half done.
layout(local_size_x = 1) in;
layout(push_constant) uniform Push
{
    uint set, add;
} push;
layout(std430, binding = 0) buffer State { uint length, done; };

void main()
{
    if (gl_GlobalInvocationID.x != 0u) return;
    length = push.set + push.add * length;
    done = 0u;
}
