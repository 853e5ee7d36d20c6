import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readOptions } from '../../bench/bench-options.ts'
import { WORKS } from '../../bench/plan.ts'

let folder: string

beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-options-'))
})

afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

describe('the options of the benchmarks', () => {
  it('without any, everything is measured and written down', () => {
    const { plan, docs, isJson } = readOptions([], 'docs')
    expect(plan.stores).toEqual(['sqlite', 'redis', 'postgres'])
    expect(plan.works).toEqual(WORKS)
    expect(plan.many.sizes.at(-1)).toBe(1_000_000)
    expect({ docs, isJson }).toEqual({ docs: 'docs', isJson: false })
  })

  it('a quick run and a part of it write nothing, unless told where', () => {
    expect(readOptions(['--quick'], 'docs').docs).toBeNull()
    expect(readOptions(['--brief'], 'docs').docs).toBeNull()
    expect(readOptions(['--only', 'many'], 'docs').docs).toBeNull()
    expect(readOptions(['--store', 'redis'], 'docs').docs).toBeNull()
    expect(readOptions(['--rounds', '3'], 'docs').docs).toBeNull()
    const there = path.join(folder, 'not', 'there', 'yet')
    expect(readOptions(['--quick', '--docs', there], 'docs').docs).toBe(there)
    expect(fs.statSync(there).isDirectory()).toBe(true)
  })

  it('a quick run has nothing without ratios, unless it is asked for', () => {
    const { works } = readOptions(['--quick'], 'docs').plan
    expect(WORKS.filter((work) => !works.includes(work))).toEqual(['pauses', 'profile'])
    expect(readOptions(['--quick', '--only', 'profile'], 'docs').plan.works).toEqual(['profile'])
  })

  it.each([
    [[], true],
    [['--rounds', '3'], true],
    [['--rounds', '2'], false],
    [['--brief', '--rounds', '9'], false],
    [['--quick'], false],
  ])('%j is long enough to judge by: %s', (args, isJudged) => {
    expect(readOptions(args, 'docs').plan.isJudged).toBe(isJudged)
  })

  it('lists choose works and stores', () => {
    const { plan } = readOptions(['--only', 'contended, many', '--store', 'postgres,redis'], 'docs')
    expect({ works: plan.works, stores: plan.stores }).toEqual({
      ...{ works: ['contended', 'many'], stores: ['redis', 'postgres'] },
    })
  })

  it.each([
    [
      ['--only', 'fast'],
      '--only must be some of pauses, uncontended, contended, many, keeping, http, start-up, hook, profile, got "fast"',
    ],
    [['--store', ''], '--store must be some of sqlite, redis, postgres, got ""'],
    [['--rounds', '0'], '--rounds must be an integer 1..1000, got "0"'],
    [['--rounds', '1e3'], '--rounds must be an integer 1..1000, got "1e3"'],
    [['--docs', ''], '--docs must be a folder that can be written, got ""'],
    [
      ['--docs', 'package.json/docs'],
      '--docs must be a folder that can be written, got "package.json/docs"',
    ],
    [['--quick', '--brief'], '--quick and --brief exclude each other, got both'],
    [['--fast'], "Unknown option '--fast'; --help lists the options"],
    [
      ['fast'],
      "Unexpected argument 'fast'. This command does not take positional arguments; --help lists the options",
    ],
    [['--only'], "Option '--only <value>' argument missing; --help lists the options"],
  ])('%j is refused with one line', (args, line) => {
    expect(() => readOptions(args, 'docs')).toThrow(
      expect.objectContaining({ name: 'UsageError', message: line }) as Error,
    )
  })
})
