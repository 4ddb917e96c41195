// What the steps of attention are told (vulkan_attention_push), and what a row sees.
layout(local_size_x = LANES) in;
layout(push_constant) uniform Push
{
    uint head_size, heads_v, rotary, kv_heads, tiles;
    uint heads, back, window, q, q_stride, y, y_stride, work;
    float scale;
    uint round, round_stride;
} push;

// The position of this workgroup's row, and the first one it sees.
uint position_of(uint length)
{
    return length - push.back + gl_WorkGroupID.z;
}

uint first_visible(uint position)
{
    return push.window != 0u && push.window <= position ? position - push.window + 1u : 0u;
}

// Words of the work buffer, for this workgroup's row and head.
uint row_and_head()
{
    return gl_WorkGroupID.z * push.heads + gl_WorkGroupID.y;
}

uint scores_word()
{
    return push.work + row_and_head() * push.tiles * 64u;
}

uint most_word()
{
    return push.work + gl_NumWorkGroups.z * push.heads * push.tiles * 64u +
           row_and_head() * push.tiles;
}

uint sums_word()
{
    return push.work + gl_NumWorkGroups.z * push.heads * push.tiles * 65u +
           row_and_head() * ((push.tiles + 3u) / 4u) * (push.head_size + 1u);
}
