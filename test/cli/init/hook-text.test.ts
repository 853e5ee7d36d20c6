import { describe, expect, it } from 'vitest'
import {
  hasGuard,
  HOOKS,
  isShellScript,
  newHook,
  withGuard,
  withoutGuard,
} from '../../../src/cli/init/git-hooks.ts'
import { fc } from '../../fast-check.ts'

describe('the text of a hook', () => {
  it.each([
    ['#!/bin/sh\n', true],
    ['#!/bin/bash -e\n', true],
    ['#!/usr/bin/env -S zsh -f\n', true],
    ['#! /usr/bin/env dash\n', true],
    ['#!/bin/sh', false],
    ['#!/usr/bin/python3\n', false],
    ['#!/usr/bin/fish\n', false],
    ['#!/bin/csh\n', false],
    ['#!/opt/sh/node\n', false],
    ['echo\n', false],
    ['\u007fELF #!/bin/sh\n', false],
  ])('%j is a shell script: %s', (text, isOne) => {
    expect(isShellScript(text)).toBe(isOne)
  })

  it('is the same, whatever it was, after the lines were put in, renewed and taken out', () => {
    const bytes = fc
      .uint8Array({ maxLength: 60 })
      .map((some) => Buffer.from(some).toString('latin1'))
    const first = fc.constantFrom('#!/bin/sh\n', '#!/usr/bin/env bash\n', '#!/bin/sh -e \n')
    fc.assert(
      fc.property(first, bytes, fc.constantFrom(...HOOKS), (line, rest, hook) => {
        const text = `${line}${rest}`
        const guarded = withGuard(text, hook, 'tenure')
        expect(hasGuard(text)).toBe(false)
        expect(hasGuard(guarded)).toBe(true)
        expect(guarded.startsWith(line) && guarded.endsWith(rest)).toBe(true)
        expect(withGuard(guarded, hook, 'tenure')).toBe(guarded)
        expect(withoutGuard(withGuard(guarded, hook, 'node main.js'))).toBe(text)
      }),
      { numRuns: 300 },
    )
  })

  it('is nothing without the lines, if it was made for them', () => {
    for (const hook of HOOKS) {
      expect(withoutGuard(newHook(hook, 'tenure'))).toBeNull()
      expect(withoutGuard(`${newHook(hook, 'tenure')}exit 0\n`)).toContain('exit 0\n')
    }
  })
})
