/* One operation on raw files. Each takes the arguments from its own name on. */
#ifndef TENON_TOOLS_OP_H
#define TENON_TOOLS_OP_H

int op_qmatmul(int argc, char **argv);
int op_embed(int argc, char **argv);
int op_rmsnorm(int argc, char **argv);
int op_attention(int argc, char **argv);
int op_gated(int argc, char **argv);
int op_add(int argc, char **argv);
int op_argmax(int argc, char **argv);

#endif
