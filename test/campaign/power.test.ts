/** What the trial of a loss of power is made of: reading a recording, and what a disk may have afterwards. */
import { describe, expect, it } from 'vitest'
import { Disk } from '../../campaign/power/disk-image.ts'
import { actsOf, type DiskAct } from '../../campaign/power/recording.ts'
import { Random } from '../../sim/random.ts'

const hex = (text: string): string => {
  return [...Buffer.from(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
}

describe('a recording', () => {
  it('is the writes and syncs of the store’s files, and what was acknowledged, in order', () => {
    const trace = [
      `openat(AT_FDCWD, "${hex('/d/x.db')}", O_RDWR|O_CREAT, 0644) = 20`,
      `openat(AT_FDCWD, "${hex('/d/x.db-wal')}", O_RDWR|O_CREAT, 0644) = 21`,
      `openat(AT_FDCWD, "${hex('/d/acks')}", O_WRONLY, 0666) = 22`,
      `openat(AT_FDCWD, "${hex('/d/none')}", O_RDONLY) = -1 ENOENT (No such file or directory)`,
      `pwrite64(21, "${hex('ab')}", 2, 32) = 2`,
      'fdatasync(21)                           = 0',
      `write(22, "${hex('7\n')}", 2) = 2`,
      `write(1, "${hex('said')}", 4) = 4`,
      'ftruncate(20, 4096) = 0',
      'close(21) = 0',
      `pwrite64(21, "${hex('c')}", 1, 0) = 1`,
    ].join('\n')
    const files = { database: '/d/x.db', acknowledged: '/d/acks', trace: '' }
    expect(actsOf(trace, files)).toEqual([
      { kind: 'write', file: 'log', at: 32, data: Buffer.from('ab') },
      { kind: 'sync', file: 'log' },
      { kind: 'acknowledged', events: 7 },
      { kind: 'truncate', file: 'database', size: 4096 },
    ])
  })
})

const write = (at: number, byte: number, length: number): DiskAct => {
  return { kind: 'write', file: 'log', at, data: Buffer.alloc(length, byte) }
}

describe('a disk that lost its power', () => {
  it('has what was synced, and of the rest any part, by sectors and in any order', () => {
    const disk = new Disk()
    for (const act of [write(0, 1, 1024), { kind: 'sync', file: 'log' } as const]) disk.take(act)
    expect(disk.hasPending).toBe(false)
    disk.take(write(256, 2, 1024))
    const random = new Random('power')
    expect(disk.image('nothing', random).log).toEqual(Buffer.alloc(1024, 1))
    const all = disk.image('everything', random).log
    expect([all.length, all[255], all[256], all[1279]]).toEqual([1280, 1, 2, 2])
    const seen = new Set<string>()
    for (let image = 0; image < 200; image += 1) {
      const { log } = disk.image('some', random)
      // The three sectors that the write touches: either old or new, each by itself.
      seen.add([log[300], log[600], log[1100] ?? 0].join())
      expect(log[255]).toBe(1)
    }
    expect([...seen].toSorted()).toEqual(
      ['1,1,0', '1,1,2', '1,2,0', '1,2,2', '2,1,0', '2,1,2', '2,2,0', '2,2,2'].toSorted(),
    )
  })

  it('has of two writes to one place, not synced, either the earlier or the later', () => {
    const disk = new Disk()
    disk.take(write(0, 1, 512))
    disk.take(write(0, 2, 512))
    const random = new Random('order')
    const seen = Array.from({ length: 100 }, () => disk.image('some', random).log[0] ?? 0)
    expect(new Set(seen)).toEqual(new Set([0, 1, 2]))
  })
})
