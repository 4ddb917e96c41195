// Two inputs of one shape and an output: vulkan_pair_push.
layout(local_size_x = 256) in;
layout(push_constant) uniform Push
{
    uint a, a_stride, b, b_stride, y, y_stride, width, activation;
} push;
layout(std430, binding = 0) readonly buffer A { float a_at[]; };
layout(std430, binding = 1) readonly buffer B { float b_at[]; };
layout(std430, binding = 2) writeonly buffer Y { float y_at[]; };
