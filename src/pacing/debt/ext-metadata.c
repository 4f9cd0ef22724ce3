/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ext-metadata.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

/* Documentation/filesystems/ext4: offsets of fields, all of them little-endian. */
#define SUPERBLOCK 1024
#define SB_BLOCKS 0x4
#define SB_FIRST_BLOCK 0x14
#define SB_BLOCK_SIZE 0x18   /* 1024 << it */
#define SB_CLUSTER_SIZE 0x1c /* the same, with bigalloc */
#define SB_GROUP_BLOCKS 0x20
#define SB_GROUP_INODES 0x28
#define SB_MAGIC 0x38
#define SB_REVISION 0x4c
#define SB_INODE_SIZE 0x58
#define SB_INCOMPATIBLE 0x60
#define SB_READ_ONLY 0x64
#define SB_DESCRIPTOR_SIZE 0xfe
#define SB_BLOCKS_HIGH 0x150

#define MAGIC 0xef53
#define INCOMPATIBLE_META_BG 0x10
#define INCOMPATIBLE_64BIT 0x80
#define READ_ONLY_GDT_CSUM 0x10
#define READ_ONLY_BIGALLOC 0x200
#define READ_ONLY_METADATA_CSUM 0x400

/* A descriptor's first 32 bytes; from there on, the upper halves of the first three. */
#define GD_FREE 0xc
#define GD_FLAGS 0x12
#define GD_BLOCK_UNUSED 0x2 /* of the flags */
#define GD_HIGH 0x20
#define GD_FREE_HIGH 0x2c
#define GD_ITABLE_UNUSED 0x1c
#define GD_ITABLE_UNUSED_HIGH 0x32

/* What there is of each group; its field in the descriptor is that many words from the beginning.
 */
enum kind {
	BLOCK_BITMAP,
	INODE_BITMAP,
	INODE_TABLE,
	HEAD, /* once, and first: from the superblock to the end of the descriptors */
	END,
};

static uint16_t u16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static uint32_t u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static int read_at(struct ext_metadata *m, uint64_t off)
{
	ssize_t n;

	off -= off % sizeof(m->read);
	if (off == m->read_at)
		return 0;
	m->read_at = UINT64_MAX;
	n = pread(m->fd, m->read, sizeof(m->read), (off_t)off);
	if (n != (ssize_t)sizeof(m->read))
		return n < 0 ? -errno : -EINVAL;
	m->read_at = off;
	return 0;
}

/* A descriptor does not cross a page: its size is a power of two. */
static const uint8_t *descriptor(struct ext_metadata *m, uint64_t group)
{
	uint64_t off = m->descriptors + group * m->descriptor;

	return read_at(m, off) < 0 ? NULL : m->read + off % sizeof(m->read);
}

static void rewind_to_head(struct ext_metadata *m)
{
	m->kind = HEAD;
	m->group = m->within = 0;
}

int ext_metadata_open(struct ext_metadata *m, int fd, uint64_t size)
{
	const uint8_t *sb = m->read + SUPERBLOCK;
	uint64_t blocks, first, group_blocks;
	uint32_t incompatible, shift;
	int r;

	*m = (struct ext_metadata){ .fd = fd, .size = size, .read_at = UINT64_MAX };
	r = read_at(m, 0);
	if (r < 0)
		return r;
	shift = u32(sb + SB_BLOCK_SIZE);
	incompatible = u32(sb + SB_INCOMPATIBLE);
	if (u16(sb + SB_MAGIC) != MAGIC || shift > 6)
		return -EINVAL;
	m->scattered = incompatible & INCOMPATIBLE_META_BG;
	m->block = 1024U << shift;
	m->cluster = m->block;
	if (u32(sb + SB_READ_ONLY) & READ_ONLY_BIGALLOC) {
		shift = u32(sb + SB_CLUSTER_SIZE);
		m->cluster = shift < 31 - 10 ? 1024U << shift : 0;
	}
	blocks = u32(sb + SB_BLOCKS);
	m->descriptor = GD_HIGH;
	if (incompatible & INCOMPATIBLE_64BIT) {
		blocks |= (uint64_t)u32(sb + SB_BLOCKS_HIGH) << 32;
		m->descriptor = u16(sb + SB_DESCRIPTOR_SIZE);
	}
	m->inode = u32(sb + SB_REVISION) == 0 ? 128 : u16(sb + SB_INODE_SIZE);
	first = u32(sb + SB_FIRST_BLOCK);
	group_blocks = u32(sb + SB_GROUP_BLOCKS);
	m->table = (uint64_t)u32(sb + SB_GROUP_INODES) * m->inode;
	m->has_unused = u32(sb + SB_READ_ONLY) & (READ_ONLY_GDT_CSUM | READ_ONLY_METADATA_CSUM);
	m->descriptors = (first + 1) * m->block;
	if (group_blocks == 0 || blocks <= first || blocks > size / m->block || m->table == 0 ||
	    m->cluster < m->block || group_blocks * m->block % m->cluster != 0 ||
	    m->descriptor < GD_HIGH || m->descriptor > sizeof(m->read) ||
	    (m->descriptor & (m->descriptor - 1)) != 0)
		return -EINVAL;
	m->n_groups = (blocks - first + group_blocks - 1) / group_blocks;
	m->first = first * m->block;
	m->end = blocks * m->block;
	m->group_bytes = group_blocks * m->block;
	rewind_to_head(m);
	return m->scattered ? -EOPNOTSUPP : 0;
}

int ext_metadata_group(struct ext_metadata *m, uint64_t group, struct ext_group *ret)
{
	uint64_t bitmap;
	const uint8_t *d;

	if (m->scattered || group >= m->n_groups)
		return m->scattered ? -EOPNOTSUPP : -EINVAL;
	d = descriptor(m, group);
	if (!d)
		return -EIO;
	*ret = (struct ext_group){ .start = m->first + group * m->group_bytes,
				   .free = u16(d + GD_FREE),
				   .unused =
					   m->has_unused && (u16(d + GD_FLAGS) & GD_BLOCK_UNUSED) };
	ret->end = MIN(ret->start + m->group_bytes, m->end);
	bitmap = u32(d + BLOCK_BITMAP * sizeof(uint32_t));
	if (m->descriptor > GD_HIGH) {
		bitmap |= (uint64_t)u32(d + GD_HIGH + BLOCK_BITMAP * sizeof(uint32_t)) << 32;
		ret->free |= (uint32_t)u16(d + GD_FREE_HIGH) << 16;
	}
	if (bitmap == 0 || bitmap >= m->size / m->block)
		return -EINVAL;
	ret->bitmap = bitmap * m->block;
	return 0;
}

uint64_t ext_metadata_bytes(const struct ext_metadata *m)
{
	return m->descriptors + m->n_groups * (m->descriptor + 2 * (uint64_t)m->block + m->table);
}

/* Where it is, and how large. Returns false if there is none: what is damaged is left to the
 * kernel. */
static bool part(struct ext_metadata *m, unsigned kind, uint64_t group, uint64_t *ret_off,
		 uint64_t *ret_len)
{
	const uint8_t *d;
	uint64_t first, unused;

	if (kind == HEAD) {
		*ret_off = 0;
		*ret_len = m->descriptors + m->n_groups * m->descriptor;
		return group == 0 && *ret_len <= m->size;
	}
	d = group < m->n_groups ? descriptor(m, group) : NULL;
	if (!d)
		return false;
	first = u32(d + kind * sizeof(uint32_t));
	*ret_len = m->block;
	if (m->descriptor > GD_HIGH)
		first |= (uint64_t)u32(d + GD_HIGH + kind * sizeof(uint32_t)) << 32;
	if (kind == INODE_TABLE) {
		unused = m->has_unused ? u16(d + GD_ITABLE_UNUSED) : 0;
		if (m->has_unused && m->descriptor > GD_HIGH)
			unused |= (uint64_t)u16(d + GD_ITABLE_UNUSED_HIGH) << 16;
		*ret_len = m->table - MIN(unused * m->inode, m->table);
	}
	if (first >= m->size / m->block || *ret_len > m->size - first * m->block)
		return false;
	*ret_off = first * m->block;
	return *ret_len > 0;
}

static void part_next(struct ext_metadata *m)
{
	m->within = 0;
	if (m->kind != HEAD && ++m->group < m->n_groups)
		return;
	m->group = 0;
	m->kind = m->kind == HEAD ? BLOCK_BITMAP : m->kind == INODE_TABLE ? END : m->kind + 1;
}

bool ext_metadata_next(struct ext_metadata *m, uint64_t most, uint64_t *ret_off, uint64_t *ret_len)
{
	uint64_t off, len, taken;

	*ret_len = 0;
	/* With flexible groups, bitmaps and tables of several groups lie beside each other. */
	while (*ret_len < most && m->kind != END) {
		if (!part(m, m->kind, m->group, &off, &len) || m->within >= len) {
			part_next(m);
			continue;
		}
		if (*ret_len > 0 && *ret_off + *ret_len != off + m->within)
			break;
		if (*ret_len == 0)
			*ret_off = off + m->within;
		taken = MIN(len - m->within, most - *ret_len);
		*ret_len += taken;
		m->within += taken;
	}
	if (*ret_len > 0)
		return true;
	rewind_to_head(m);
	return false;
}
