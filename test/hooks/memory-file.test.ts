/** The memory of a session under hooks that come at the same moment: each is a process of its own. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { MemoryFile } from '../../src/hooks/memory-file.ts'
import { memoryText, seenKey, type MemoryRecord } from '../../src/hooks/session-memory.ts'

const COMPACTED_BYTES = 1_048_576

function seen(file: string): MemoryRecord {
  return { k: 'seen', agent: 'main', path: file, hash: 'h' }
}

/** A memory that is long enough to be written anew, in a directory of its own. */
function longMemory(): { readonly memory: MemoryFile; readonly directory: string } {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-memory-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const memory = new MemoryFile(directory, 's1')
  const line = memoryText([seen('a.ts')])
  memory.append([seen('a.ts')])
  const [name = ''] = fs.readdirSync(directory)
  fs.appendFileSync(path.join(directory, name), line.repeat(COMPACTED_BYTES / line.length + 1))
  return { memory, directory }
}

/** What another hook does after the new file of this one is written, and before it takes the place of the old. */
function meanwhile(other: () => void): void {
  const write = fs.writeFileSync
  const spy = vi.spyOn(fs, 'writeFileSync').mockImplementation((...asked) => {
    write(...asked)
    spy.mockRestore()
    other()
  })
}

it('is read whole by two hooks that write it anew at once', () => {
  const { memory, directory } = longMemory()
  meanwhile(() => expect([...memory.read().seen.keys()]).toEqual([seenKey('main', 'a.ts')]))
  expect([...memory.read().seen.keys()]).toEqual([seenKey('main', 'a.ts')])
  expect([...memory.read().seen.keys()]).toEqual([seenKey('main', 'a.ts')])
  expect(fs.readdirSync(directory)).toHaveLength(1)
})

it('keeps what a hook appends while another writes it anew', () => {
  const { memory, directory } = longMemory()
  meanwhile(() => memory.append([seen('b.ts')]))
  memory.read()
  expect([...memory.read().seen.keys()]).toContain(seenKey('main', 'b.ts'))
  expect(fs.readdirSync(directory)).toHaveLength(1)
})
