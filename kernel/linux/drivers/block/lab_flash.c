// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel lab's flash: memory in one piece that is mapped linearly, as NOR flash is, as an MTD.
 * The size is an early parameter, lab_flash=16M: no allocator has so much in one piece later. Reads
 * take no time; what reads a block decodes it, which has a price.
 */
#include <linux/init.h>
#include <linux/io.h>
#include <linux/memblock.h>
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include <linux/sizes.h>

#define ERASE_BYTES SZ_64K

static void *flash;
static unsigned long flash_bytes;

static int __init lab_flash_setup(char *text)
{
	flash_bytes = round_down(memparse(text, &text), ERASE_BYTES);
	if (flash_bytes)
		flash = memblock_alloc(flash_bytes, PAGE_SIZE);
	return 0;
}
early_param("lab_flash", lab_flash_setup);

static int lab_flash_erase(struct mtd_info *mtd, struct erase_info *erase)
{
	memset(flash + erase->addr, 0xff, erase->len);
	return 0;
}

static int lab_flash_point(struct mtd_info *mtd, loff_t from, size_t len, size_t *retlen,
			   void **virt, resource_size_t *phys)
{
	*virt = flash + from;
	*retlen = len;
	if (phys)
		*phys = virt_to_phys(*virt);
	return 0;
}

static int lab_flash_unpoint(struct mtd_info *mtd, loff_t from, size_t len)
{
	return 0;
}

static int lab_flash_read(struct mtd_info *mtd, loff_t from, size_t len, size_t *retlen,
			  u_char *buffer)
{
	memcpy(buffer, flash + from, len);
	*retlen = len;
	return 0;
}

static int lab_flash_write(struct mtd_info *mtd, loff_t to, size_t len, size_t *retlen,
			   const u_char *buffer)
{
	memcpy(flash + to, buffer, len);
	*retlen = len;
	return 0;
}

static struct mtd_info lab_mtd = {
	.name = "lab",
	.type = MTD_RAM,
	.flags = MTD_CAP_RAM,
	.writesize = 1,
	.writebufsize = 1,
	.erasesize = ERASE_BYTES,
	.owner = THIS_MODULE,
	._erase = lab_flash_erase,
	._point = lab_flash_point,
	._unpoint = lab_flash_unpoint,
	._read = lab_flash_read,
	._write = lab_flash_write,
};

static int __init lab_flash_init(void)
{
	if (!flash)
		return 0;
	lab_mtd.size = flash_bytes;
	return mtd_device_register(&lab_mtd, NULL, 0);
}
device_initcall(lab_flash_init);
