// FusedConv2d of fused_conv2d.py:124, for a2a3. Written by a program: do not edit.
#include <cstdint>
// The headers need the standard library's integers before them.
#include <pto/pto-inst.hpp>

namespace lowered {
using namespace pto;

// What differs from a card on the simulator, and only there:
// - It keeps bias table, fixpipe table and UB in one memory: the tables get addresses of their own, after UB.
// - Its TSTORE_FP scales by row: what is requantised to GM goes through spare bytes of UB, after the tables.
// - Its event flags do nothing.
#ifdef __CPU_SIM
constexpr uint64_t BIAS = 0, SCALING = 1024, SPARE = 3072;
#else
constexpr uint64_t BIAS = 0, SCALING = 0;
#define STORES_AS_A_CARD
#endif

// A tile in L1, in fractals of 16 x 32 bytes, plane after plane of 32 columns.
template <int rows, int columns, int valid = columns, int valid_rows = rows>
using Fractals =
    Tile<TileType::Mat, int8_t, rows, columns, BLayout::ColMajor, valid_rows, valid, SLayout::RowMajor, 512>;
// A tile whose rows lie one after another.
template <TileType place, typename T, int rows, int columns, int valid = columns, int valid_rows = rows>
using Rows = Tile<place, T, rows, columns, BLayout::RowMajor, valid_rows, valid>;
// A rectangle of a tensor in GM.
template <typename T, int rows, int columns, int stride>
using Matrix = GlobalTensor<T, Shape<1, 1, 1, rows, columns>,
                            Stride<rows * stride, rows * stride, rows * stride, stride, 1>, Layout::ND>;
// One whose number of rows is a run-time value.
template <typename T, int columns, int stride>
using SomeRows = GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, columns>, Stride<stride, stride, stride, stride, 1>,
                              Layout::ND>;
// The same bytes as a tile in fractals, as img2col reads them.
template <int planes, int height, int width>
using Image = ConvTile<TileType::Mat, int8_t, planes * height * width * 32, Layout::NC1HWC0,
                       ConvTileShape<1, planes, height, width, 32>>;

struct Pair {
    uint16_t rows, columns;
};
struct Padding {
    uint8_t left, right, top, bottom;
};

// What img2col has to know of an image beside its shape.
template <int planes, int height, int width>
AICORE inline void describe(Image<planes, height, width>& image, Pair kernel, Pair stride, Padding padding)
{
    const uint8_t list[4] = {padding.left, padding.right, padding.top, padding.bottom};
    image.SetFmapH(height);
    image.SetFmapW(width);
    image.SetFilterH(kernel.rows);
    image.SetFilterW(kernel.columns);
    image.SetStrideH(stride.rows);
    image.SetStrideW(stride.columns);
    image.SetPadListArray(list);
    image.SetChannelSize(planes * 32);
    image.SetPadValue(0);
}

AICORE constexpr int floor_quotient(int a, int b) { return a / b - (a % b < 0); }
AICORE constexpr int floor_remainder(int a, int b) { return a - floor_quotient(a, b) * b; }

// fused_conv2d.py:126
AICORE inline void f_fused(
    __gm__ int8_t* gm_x,
    __gm__ int8_t* gm_filter1,
    __gm__ int32_t* gm_bias1,
    __gm__ uint64_t* gm_scale1,
    __gm__ int8_t* gm_filter2,
    __gm__ int32_t* gm_bias2,
    __gm__ uint64_t* gm_scale2,
    __gm__ int8_t* gm_y)
{
    Fractals<576, 64> t_f1; uint64_t t_f1_at = 0;
    Fractals<576, 64> t_f2; uint64_t t_f2_at = 0;
    Rows<TileType::Mat, int32_t, 1, 64> t_b1; uint64_t t_b1_at = 0;
    Rows<TileType::Mat, uint64_t, 1, 64> t_s1; uint64_t t_s1_at = 0;
    Rows<TileType::Mat, int32_t, 1, 64> t_b2; uint64_t t_b2_at = 0;
    Rows<TileType::Mat, uint64_t, 1, 64> t_s2; uint64_t t_s2_at = 0;
    Fractals<384, 64> t_feature_map; uint64_t t_feature_map_at = 0;
    Fractals<96, 64> t_mid; uint64_t t_mid_at = 0;
    Rows<TileType::Bias, int32_t, 1, 64> t_bias_table1;
    Rows<TileType::Scaling, uint64_t, 1, 64> t_scale_table1;
    TileLeft<int8_t, 16, 64> t_conv1_a;
    TileRight<int8_t, 64, 64> t_conv1_b;
    TileAcc<int32_t, 16, 64, DYNAMIC, 64> t_conv1_acc;
    TileAcc<int32_t, 16, 64, DYNAMIC, 64> t_acc1;
    Rows<TileType::Bias, int32_t, 1, 64> t_bias_table2;
    Rows<TileType::Scaling, uint64_t, 1, 64> t_scale_table2;
    TileLeft<int8_t, 16, 32> t_conv2_a;
    TileRight<int8_t, 32, 64> t_conv2_b;
    TileAcc<int32_t, 16, 64, DYNAMIC, 64> t_conv2_acc;
    TileAcc<int32_t, 16, 64, DYNAMIC, 64> t_acc2;
    {  // fused_conv2d.py:137: f1 = pl.load
        TASSIGN(t_f1, t_f1_at = 0);
        Matrix<int8_t, 576, 64, 64> gm(gm_filter1 + 0 * 64 + 0);
        TLOAD(t_f1, gm);
    }
    {  // fused_conv2d.py:138: f2 = pl.load
        TASSIGN(t_f2, t_f2_at = 36864);
        Matrix<int8_t, 576, 64, 64> gm(gm_filter2 + 0 * 64 + 0);
        TLOAD(t_f2, gm);
    }
    {  // fused_conv2d.py:139: b1 = pl.load
        TASSIGN(t_b1, t_b1_at = 73728);
        Matrix<int32_t, 1, 64, 64> gm(gm_bias1 + 0 * 64 + 0);
        TLOAD(t_b1, gm);
    }
    {  // fused_conv2d.py:140: s1 = pl.load
        TASSIGN(t_s1, t_s1_at = 73984);
        Matrix<uint64_t, 1, 64, 64> gm(gm_scale1 + 0 * 64 + 0);
        TLOAD(t_s1, gm);
    }
    {  // fused_conv2d.py:141: b2 = pl.load
        TASSIGN(t_b2, t_b2_at = 74496);
        Matrix<int32_t, 1, 64, 64> gm(gm_bias2 + 0 * 64 + 0);
        TLOAD(t_b2, gm);
    }
    {  // fused_conv2d.py:142: s2 = pl.load
        TASSIGN(t_s2, t_s2_at = 74752);
        Matrix<uint64_t, 1, 64, 64> gm(gm_scale2 + 0 * 64 + 0);
        TLOAD(t_s2, gm);
    }
    {  // fused_conv2d.py:63: feature_map = pl.tile.create
        TASSIGN(t_feature_map, t_feature_map_at = 75264);
    }
    for (int i_plane = 0; i_plane < 2; ++i_plane) {  // fused_conv2d.py:67
        {  // fused_conv2d.py:68: feature_map = pl.tile.gather_row
            for (int plane = 0; plane < 1; ++plane) {
                Matrix<int8_t, 384, 32, 32> gm(gm_x + ((i_plane * 384) + 0) * 32 + 0 + plane * 32);
                Fractals<384, 32> part;
                TASSIGN(part, t_feature_map_at + ((i_plane * 32) / 32 + plane) * 12288 + 0 * 32);
                TLOAD(part, gm);
            }
        }
    }
    {  // fused_conv2d.py:75: mid = pl.tile.create
        TASSIGN(t_mid, t_mid_at = 99840);
    }
    {  // fused_conv2d.py:79: bias_table1 = pl.move
        set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
        TASSIGN(t_bias_table1, BIAS + 0);
        TMOV(t_bias_table1, t_b1);
    }
    {  // fused_conv2d.py:80: scale_table1 = pl.move
        set_flag(PIPE_MTE2, PIPE_FIX, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_FIX, EVENT_ID0);
        TASSIGN(t_scale_table1, SCALING + 0);
        TMOV(t_scale_table1, t_s1);
    }
    for (int i_mid_tile = 0; i_mid_tile < 6; ++i_mid_tile) {  // fused_conv2d.py:81
        {  // blocks.py:36: conv1_a = pl.tile.img2col
            set_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
            wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
            TASSIGN(t_conv1_a, 0);
            Image<2, 24, 16> image;
            TASSIGN(image, t_feature_map_at);
            describe(image, {3, 3}, {2, 2}, {1, 1, 1, 0});
            SETFMATRIX(image);
            SET_IMG2COL_PADDING(image);
            TIMG2COL(t_conv1_a, image, (0 + (i_mid_tile * 16)), 0);
        }
        {  // blocks.py:46: conv1_b = pl.tile.extract
            TASSIGN(t_conv1_b, 0);
            TEXTRACT(t_conv1_b, t_f1, 0, 0);
        }
        {  // blocks.py:47: conv1_acc = pl.tile.matmul_bias
            set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
            wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
            set_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
            wait_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
            TASSIGN(t_conv1_acc, 0);
            t_conv1_acc.SetValidRow(16);
            TMATMUL_BIAS(t_conv1_acc, t_conv1_a, t_conv1_b, t_bias_table1);
        }
        for (int i_conv1_k = 1; i_conv1_k < 9; ++i_conv1_k) {  // blocks.py:48
            {  // blocks.py:49: conv1_a = pl.tile.img2col
                set_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
                wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
                TASSIGN(t_conv1_a, 0);
                Image<2, 24, 16> image;
                TASSIGN(image, t_feature_map_at);
                describe(image, {3, 3}, {2, 2}, {1, 1, 1, 0});
                SETFMATRIX(image);
                SET_IMG2COL_PADDING(image);
                TIMG2COL(t_conv1_a, image, (0 + (i_mid_tile * 16)), (i_conv1_k * 64));
            }
            {  // blocks.py:59: conv1_b = pl.tile.extract
                TASSIGN(t_conv1_b, 0);
                TEXTRACT(t_conv1_b, t_f1, (i_conv1_k * 64), 0);
            }
            {  // blocks.py:66: conv1_acc = pl.tile.matmul_acc
                set_flag(PIPE_MTE1, PIPE_M, EVENT_ID1);
                wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID1);
                TMATMUL_ACC(t_conv1_acc, t_conv1_acc, t_conv1_a, t_conv1_b);
            }
        }
        t_acc1 = t_conv1_acc;  // fused_conv2d.py:82
        if ((i_mid_tile == -1)) {  // fused_conv2d.py:83
            {  // fused_conv2d.py:84: acc1 = pl.tile.set_validshape
                t_acc1.SetValidRow(16);
            }
        }
        {  // fused_conv2d.py:85: mid = pl.tile.fixpipe_requant
            set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
            wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
            TINSERT_FP(t_mid, t_acc1, t_scale_table1, (i_mid_tile * 16), 0);
        }
    }
    {  // fused_conv2d.py:86: bias_table2 = pl.move
        TASSIGN(t_bias_table2, BIAS + 0);
        TMOV(t_bias_table2, t_b2);
    }
    {  // fused_conv2d.py:87: scale_table2 = pl.move
        TASSIGN(t_scale_table2, SCALING + 0);
        TMOV(t_scale_table2, t_s2);
    }
    for (int i_out_tile = 0; i_out_tile < 6; ++i_out_tile) {  // fused_conv2d.py:88
        {  // blocks.py:90: conv2_a = pl.tile.img2col
            set_flag(PIPE_FIX, PIPE_MTE1, EVENT_ID0);
            wait_flag(PIPE_FIX, PIPE_MTE1, EVENT_ID0);
            TASSIGN(t_conv2_a, 0);
            Image<2, 12, 8> image;
            TASSIGN(image, t_mid_at);
            describe(image, {3, 3}, {1, 1}, {1, 1, 1, 1});
            SETFMATRIX(image);
            SET_IMG2COL_PADDING(image);
            TIMG2COL(t_conv2_a, image, (0 + (i_out_tile * 16)), 0);
        }
        {  // blocks.py:100: conv2_b = pl.tile.extract
            TASSIGN(t_conv2_b, 0);
            TEXTRACT(t_conv2_b, t_f2, 0, 0);
        }
        {  // blocks.py:101: conv2_acc = pl.tile.matmul_bias
            set_flag(PIPE_MTE1, PIPE_M, EVENT_ID2);
            wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID2);
            TASSIGN(t_conv2_acc, 0);
            t_conv2_acc.SetValidRow(16);
            TMATMUL_BIAS(t_conv2_acc, t_conv2_a, t_conv2_b, t_bias_table2);
        }
        for (int i_conv2_k = 1; i_conv2_k < 18; ++i_conv2_k) {  // blocks.py:102
            {  // blocks.py:103: conv2_a = pl.tile.img2col
                set_flag(PIPE_M, PIPE_MTE1, EVENT_ID3);
                wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID3);
                TASSIGN(t_conv2_a, 0);
                Image<2, 12, 8> image;
                TASSIGN(image, t_mid_at);
                describe(image, {3, 3}, {1, 1}, {1, 1, 1, 1});
                SETFMATRIX(image);
                SET_IMG2COL_PADDING(image);
                TIMG2COL(t_conv2_a, image, (0 + (i_out_tile * 16)), (i_conv2_k * 32));
            }
            {  // blocks.py:113: conv2_b = pl.tile.extract
                TASSIGN(t_conv2_b, 0);
                TEXTRACT(t_conv2_b, t_f2, (i_conv2_k * 32), 0);
            }
            {  // blocks.py:120: conv2_acc = pl.tile.matmul_acc
                set_flag(PIPE_MTE1, PIPE_M, EVENT_ID3);
                wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID3);
                TMATMUL_ACC(t_conv2_acc, t_conv2_acc, t_conv2_a, t_conv2_b);
            }
        }
        t_acc2 = t_conv2_acc;  // fused_conv2d.py:89
        if ((i_out_tile == -1)) {  // fused_conv2d.py:90
            {  // fused_conv2d.py:91: acc2 = pl.tile.set_validshape
                t_acc2.SetValidRow(16);
            }
        }
        {  // fused_conv2d.py:92: y = pl.tile.fixpipe_store
            set_flag(PIPE_M, PIPE_FIX, EVENT_ID1);
            wait_flag(PIPE_M, PIPE_FIX, EVENT_ID1);
            SomeRows<int8_t, 64, 64> gm(gm_y + (0 + (i_out_tile * 16)) * 64 + 0, {t_acc2.GetValidRow()});
#ifndef STORES_AS_A_CARD
            Rows<TileType::Vec, int8_t, 16, 64, 64, DYNAMIC> spare(t_acc2.GetValidRow());
            TASSIGN(spare, SPARE);
            TINSERT_FP(spare, t_acc2, t_scale_table2, 0, 0);
            TSTORE(gm, spare);
#else
            TSTORE_FP(gm, t_acc2, t_scale_table2);
#endif
        }
    }
}

// fused_conv2d.py:163
inline void lowered_main(
    __gm__ int8_t* gm_x,
    __gm__ int8_t* gm_filter1,
    __gm__ int32_t* gm_bias1,
    __gm__ uint64_t* gm_scale1,
    __gm__ int8_t* gm_filter2,
    __gm__ int32_t* gm_bias2,
    __gm__ uint64_t* gm_scale2,
    __gm__ int8_t* gm_y)
{
    f_fused(gm_x, gm_filter1, gm_bias1, gm_scale1, gm_filter2, gm_bias2, gm_scale2, gm_y);  // fused_conv2d.py:174
}
}  // namespace lowered
