/* Writing out a tile: GRID(M) is M(r, c) for every row group r and column c of the tile TR x TC,
 * ROWS(M) is M(r). Accumulators are named variables made this way because compilers keep indexed
 * arrays of vectors in memory. Columns change slowest, so that the broadcast of one value of x is
 * shared by the row groups. */
#ifndef TENON_CPU_GRID_H
#define TENON_CPU_GRID_H

#define CPU_CAT2_(a, b) a##b
#define CPU_CAT2(a, b) CPU_CAT2_(a, b)
#define CPU_CAT3_(a, b, c) a##b##c
#define CPU_CAT3(a, b, c) CPU_CAT3_(a, b, c)
#define CPU_CAT4_(a, b, c, d) a##b##c##d
#define CPU_CAT4(a, b, c, d) CPU_CAT4_(a, b, c, d)

#define CPU_ROWS_1(M) M(0)
#define CPU_ROWS_2(M) M(0) M(1)
#define CPU_ROWS_4(M) M(0) M(1) M(2) M(3)

#define CPU_COLUMN_1(M, c) M(0, c)
#define CPU_COLUMN_2(M, c) M(0, c) M(1, c)
#define CPU_COLUMN_4(M, c) M(0, c) M(1, c) M(2, c) M(3, c)

#define CPU_GRID_1(COLUMN, M) COLUMN(M, 0)
#define CPU_GRID_2(COLUMN, M) CPU_GRID_1(COLUMN, M) COLUMN(M, 1)
#define CPU_GRID_3(COLUMN, M) CPU_GRID_2(COLUMN, M) COLUMN(M, 2)
#define CPU_GRID_4(COLUMN, M) CPU_GRID_3(COLUMN, M) COLUMN(M, 3)
#define CPU_GRID_5(COLUMN, M) CPU_GRID_4(COLUMN, M) COLUMN(M, 4)
#define CPU_GRID_6(COLUMN, M) CPU_GRID_5(COLUMN, M) COLUMN(M, 5)

#define ROWS(M) CPU_CAT2(CPU_ROWS_, TR)(M)
#define GRID(M) CPU_CAT2(CPU_GRID_, TC)(CPU_CAT2(CPU_COLUMN_, TR), M)

#endif
