// Where x comes from and its records go: vulkan_stage_push.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push
{
    uint x, x_stride, cols, units, work, work_stride;
} push;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Work { uvec4 work[]; };
