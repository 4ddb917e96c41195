/* One operation on raw files. Each takes the arguments from its own name on. */
#ifndef TENON_TOOLS_OP_H
#define TENON_TOOLS_OP_H

int op_qmatmul(int argc, char **argv);

#endif
