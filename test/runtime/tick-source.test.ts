import { describe, expect, it } from 'vitest'
import { systemTickSource } from '../../src/runtime/tick-source.ts'
import { failToRead } from './failing-files.ts'

/** Where the kernel says which boot and which clock it is. */
describe.runIf(process.platform === 'linux')('the clock of this host', () => {
  it('is called the same by every process of one boot', () => {
    expect(systemTickSource().domain).toMatch(/^[0-9a-f]{12}\/[0-9a-f-]{36}\/-?\d+\.\d+$/)
    expect(systemTickSource().domain).toBe(systemTickSource().domain)
  })

  it('is called the same where the kernel knows no time namespaces', () => {
    const usual = systemTickSource().domain
    failToRead('/timens_offsets', 'ENOENT')
    expect(systemTickSource().domain).toBe(usual)
  })

  it('has no name where the kernel tells no boot', () => {
    failToRead('/boot_id', 'ENOENT')
    expect(systemTickSource().domain).toBeNull()
  })

  it.each([
    ['/boot_id', 'EMFILE'],
    ['/boot_id', 'EACCES'],
    ['/timens_offsets', 'EMFILE'],
    ['/timens_offsets', 'EACCES'],
    ['/machine-id', 'EIO'],
  ])('is not given another name because %s cannot be read (%s)', (file, code) => {
    failToRead(file, code)
    expect(() => systemTickSource()).toThrow(code)
  })
})
