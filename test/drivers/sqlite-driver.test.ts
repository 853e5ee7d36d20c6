import { describe, expect, it } from 'vitest'
import { bringsSqlite, isBusy, sqliteCode, sqliteError } from '../../src/drivers/sqlite-driver.ts'

describe('the SQLite that Node brings', () => {
  it.each([
    ['20.20.2', undefined, false],
    // Importing it prints a warning.
    ['22.23.0', '3.51.3', false],
    ['24.0.0', '3.49.1', false],
    ['24.10.0', '3.50.4', false],
    ['24.14.0', '3.51.2', false],
    ['24.15.0', '3.51.3', true],
    ['24.21.0', '3.53.4', true],
    ['26.0.0', '4.0.0', true],
    // Built without it.
    ['24.21.0', undefined, false],
  ])('of Node %s, %s, is used: %s', (node, sqlite, isUsed) => {
    expect(bringsSqlite({ node, ...(sqlite === undefined ? {} : { sqlite }) })).toBe(isUsed)
  })
})

describe('an error of node:sqlite', () => {
  const failed = (errcode: number): Error => {
    return Object.assign(new Error('no'), { code: 'ERR_SQLITE_ERROR', errcode })
  }

  it.each([
    [5, 'SQLITE_BUSY', 'STORE_UNAVAILABLE'],
    // SQLITE_BUSY_SNAPSHOT
    [517, 'SQLITE_BUSY', 'STORE_UNAVAILABLE'],
    [26, 'SQLITE_NOTADB', 'STORE_SCHEMA'],
    [11, 'SQLITE_CORRUPT', 'STORE_SCHEMA'],
    [13, 'SQLITE_FULL', 'STORE_UNAVAILABLE'],
    [99, 'SQLITE_99', 'STORE_UNAVAILABLE'],
  ])('%d is %s', (errcode, name, code) => {
    expect(sqliteCode(failed(errcode))).toBe(name)
    expect(isBusy(failed(errcode))).toBe(name === 'SQLITE_BUSY')
    expect(sqliteError(failed(errcode), 'sqlite:x')).toMatchObject({ code })
  })

  it('of the disk during COMMIT leaves open whether it was committed', () => {
    const code = 'STORE_OUTCOME_UNKNOWN'
    expect(sqliteError(failed(1034), 'sqlite:x', true)).toMatchObject({ code })
  })

  it('that is a mistake of the program stays what it is', () => {
    const mistake = new TypeError('undefined is not a function')
    expect(sqliteError(mistake, 'sqlite:x')).toBe(mistake)
  })
})
