import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { fileSystemIn } from '../../bench/report/file-system.ts'
import { installedVersion } from '../../bench/report/machine.ts'

const MOUNTS = [
  '27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard',
  '31 27 0:28 / /tm rw - xfs /dev/sdb rw',
  '32 27 0:29 / /tmp/with\\040space rw,nosuid shared:2 master:3 - tmpfs tmpfs rw',
  '33 27 0:30 / /over rw - ext4 /dev/sdc rw',
  '34 33 0:31 / /over rw - btrfs /dev/sdd rw',
  '',
].join('\n')

it.each([
  ['/', 'ext4'],
  ['/tmp/tenure-bench', 'ext4'],
  ['/tmp/with space', 'tmpfs'],
  ['/tmp/with space/deep/er', 'tmpfs'],
  ['/tmp/with spaces', 'ext4'],
  ['/over/it', 'btrfs'],
])('the disk of %s is %s', (folder, type) => {
  expect(fileSystemIn(MOUNTS, folder)).toBe(type)
})

it('a disk that nothing is known of is unknown', () => {
  expect(fileSystemIn('', '/tmp')).toBe('unknown')
})

it('the version of a peer is the one that is installed, whatever was asked for', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-peer-'))
  try {
    const peer = path.join(folder, 'node_modules', '@some', 'peer')
    fs.mkdirSync(peer, { recursive: true })
    fs.writeFileSync(path.join(peer, 'package.json'), '{ "version": "4.5.6" }')
    expect(installedVersion(folder, '@some/peer')).toBe('4.5.6')
    expect(installedVersion(folder, 'another')).toBe('not installed')
  } finally {
    fs.rmSync(folder, { recursive: true })
  }
})
