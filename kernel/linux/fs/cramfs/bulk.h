/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _CRAMFS_BULK_H
#define _CRAMFS_BULK_H

struct file;
struct inode;
struct kiocb;
struct iov_iter;
struct super_block;

extern const struct file_operations cramfs_bulk_fops;

int cramfs_bulk_init(void);
void cramfs_bulk_exit(void);
void cramfs_bulk_drain(void);
void cramfs_bulk_no_readahead(struct file *file);
ssize_t cramfs_bulk_read_iter(struct kiocb *iocb, struct iov_iter *to);
void cramfs_bulk_fill(struct inode *inode, u32 index, u32 maxblock, unsigned long flags);
void *cramfs_bulk_buffer(struct super_block *sb, unsigned int offset, unsigned int len);

#endif
