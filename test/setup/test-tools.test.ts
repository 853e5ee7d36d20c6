import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { advice, mayInstall, missingTools, postgresFolders } from '../../scripts/test-tools.mjs'

let folder: string

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-tools-'))
})

afterEach(() => {
  fs.rmSync(folder, { recursive: true })
})

function addProgram(name: string): void {
  fs.writeFileSync(path.join(folder, name), '#!/bin/sh\n', { mode: 0o755 })
}

it('a tool is missing until a program of its name can be run', () => {
  const tools = [{ program: 'faketime', debianPackage: 'faketime' }]
  expect(missingTools(tools, folder)).toEqual(tools)
  fs.writeFileSync(path.join(folder, 'faketime'), '', { mode: 0o644 })
  expect(missingTools(tools, folder)).toEqual(tools)
  fs.rmSync(path.join(folder, 'faketime'))
  addProgram('faketime')
  expect(missingTools(tools, folder)).toEqual([])
})

it('only root with a package manager installs; everybody else is told the command', () => {
  expect(mayInstall(folder, 0)).toBe(false)
  addProgram('apt-get')
  expect(mayInstall(folder, 0)).toBe(true)
  expect(mayInstall(folder, 1000)).toBe(false)
  const missing = [{ program: 'unshare', debianPackage: 'util-linux' }]
  expect(advice(missing)).toContain('apt-get install util-linux')
})

it('the server programs of PostgreSQL are looked for in the latest version first', () => {
  for (const version of ['9', '15', '17']) fs.mkdirSync(path.join(folder, version))
  const latestFirst = ['17', '15', '9'].map((version) => path.join(folder, version, 'bin'))
  expect(postgresFolders(folder)).toEqual(latestFirst)
  expect(postgresFolders(path.join(folder, 'nowhere'))).toEqual([])
})

it('a package that brings two programs is named once', () => {
  const missing = ['initdb', 'postgres'].map((program) => ({
    program,
    debianPackage: 'postgresql',
  }))
  expect(advice(missing)).toMatch(/need initdb, postgres\..* apt-get install postgresql$/)
})
